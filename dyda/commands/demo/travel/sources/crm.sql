-- DS 1 of Figure 1: Customer(Name, Address, Phone).
CREATE TABLE customer (name text PRIMARY KEY, address text, phone text);
